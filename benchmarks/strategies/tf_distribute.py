#!/usr/bin/env python3
"""Trains a network with tf.distribute.MultiWorkerMirroredStrategy: two processes, one thread for each op.

    tf_distribute.py mlp|lenet

Says "ready", then for every line of input, a number of steps, the seconds that they took.
"""
import json
import os
import socket
import subprocess
import sys
import time

BATCH = 128


def free_address():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"localhost:{one.getsockname()[1]}"


def config(addresses, index):
    return json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})


def make_network(layers, name):
    if name == "mlp":
        return [layers.Dense(512, "relu"), layers.Dense(512, "relu"), layers.Dense(10)]
    return [
        layers.Conv2D(6, 5, padding="same", activation="relu"), layers.MaxPool2D(2),
        layers.Conv2D(16, 5, activation="relu"), layers.MaxPool2D(2), layers.Flatten(),
        layers.Dense(120, "relu"), layers.Dense(84, "relu"), layers.Dense(10),
    ]


def make_step(tf, strategy, name):
    shape = (784,) if name == "mlp" else (28, 28, 1)
    with strategy.scope():
        model = tf.keras.Sequential(make_network(tf.keras.layers, name))
        model.build((BATCH, *shape))
        optimizer = tf.keras.optimizers.SGD(0.01)
    images = strategy.experimental_distribute_values_from_function(lambda _: tf.random.uniform((BATCH, *shape)))
    labels = strategy.experimental_distribute_values_from_function(
        lambda _: tf.random.uniform((BATCH,), 0, 10, tf.int32))

    def train(x, y):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x))
            loss = tf.reduce_sum(losses) / (2 * BATCH)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

    traced = tf.function(lambda x, y: strategy.run(train, args=(x, y)))
    return lambda: traced(images, labels)


def train_as_told(other):
    """Reads orders; `other`, where there is one, is told them, and this one says how long they took."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    step = make_step(tf, tf.distribute.MultiWorkerMirroredStrategy(), sys.argv[1])
    for _ in range(10):
        step()
    if other:
        print("ready", flush=True)
    while steps := int(sys.stdin.readline() or 0):
        if other:
            print(steps, file=other.stdin, flush=True)
        start = time.perf_counter()
        for _ in range(steps):
            step()
        if other:
            print(time.perf_counter() - start, flush=True)


def main():
    if os.environ.get("COHORT_PEER") == "1":
        train_as_told(None)
        return
    os.environ.update(OMP_NUM_THREADS="1", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    addresses = [free_address(), free_address()]
    environment = dict(os.environ, COHORT_PEER="1", TF_CONFIG=config(addresses, 1))
    os.environ["TF_CONFIG"] = config(addresses, 0)
    with subprocess.Popen([sys.executable, *sys.argv], env=environment, stdin=subprocess.PIPE, text=True,
                          stdout=subprocess.DEVNULL) as other:
        try:
            train_as_told(other)
            other.stdin.close()
            other.wait(timeout=30)
        finally:
            other.kill()


main()
