#!/bin/sh
# Certificates for tasks that were not started by `cohort run`: an authority of one's own and, signed by it, a
# certificate for each task and one for clients.
#
#   scripts/make_credentials.sh FOLDER ps:0 worker:0 worker:1
#
# makes FOLDER/ps_0, FOLDER/worker_0, FOLDER/worker_1 and FOLDER/client, each a folder for COHORT_CREDENTIALS that
# goes to its task and to nobody else, and FOLDER/authority, which stays at home. Called again it adds tasks.
# DAYS says how long they are valid.
set -eu
umask 077

[ $# -ge 2 ] || { sed -n 's/^# \{0,1\}//p' "$0" >&2; exit 2; }
command -v openssl > /dev/null || { echo "make_credentials.sh: openssl is missing (apt install openssl)" >&2; exit 1; }

folder=$1
shift
authority=$folder/authority
days=${DAYS:-365}

if [ ! -e "$authority/private_key.pem" ]; then
  mkdir -p "$authority"
  openssl ecparam -name prime256v1 -genkey -noout -out "$authority/private_key.pem"
  openssl req -x509 -new -key "$authority/private_key.pem" -days "$days" -subj "/CN=cohort authority" \
    -addext "keyUsage=critical,keyCertSign,cRLSign" -out "$authority/authority.pem"
  openssl rand -hex 32 | tr -d '\n' > "$authority/token"
fi

# Arguments: the folder's name, the name in the certificate.
issue() {
  party=$folder/$1
  mkdir -p "$party"
  openssl ecparam -name prime256v1 -genkey -noout -out "$party/private_key.pem"
  printf 'subjectAltName=URI:cohort:%s\n' "$2" > "$party/extensions"
  openssl req -new -key "$party/private_key.pem" -subj "/CN=cohort party" |
    openssl x509 -req -CA "$authority/authority.pem" -CAkey "$authority/private_key.pem" -days "$days" \
      -set_serial "0x$(openssl rand -hex 8)" -extfile "$party/extensions" -out "$party/certificate.pem" 2> /dev/null
  rm "$party/extensions"
  cp "$authority/authority.pem" "$authority/token" "$party"
}

for task in "$@"; do
  case $task in
    *?:[0-9]*) issue "${task%:*}_${task##*:}" "/job:${task%:*}/replica:0/task:${task##*:}" ;;
    *) echo "make_credentials.sh: '$task' is no task; write it as worker:0" >&2; exit 2 ;;
  esac
done
issue client client
