// Holds the precompiled header that the kernel-calling modules share.
