"""Records what torch and TensorFlow (Keras) make of the same gradients, for src/optim/formula_test.cc.

usage: record_optimizers.py > optimizers.h

Run by hand, where torch (without triton, as for CPUs) and tensorflow are installed; the header says
which versions were.
"""
import inspect
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras
import numpy
import tensorflow
import torch

keras.config.set_floatx("float64")
torch.set_default_dtype(torch.float64)

STEPS = 6
FIRST = numpy.sin(0.7 * numpy.arange(4) + 0.3)


def gradient(step):
    return numpy.sin(0.7 * numpy.arange(4) + 1.1 * step)


def rate(step):
    """Changes on the way: a velocity that contains the rate goes another way then."""
    return 0.1 if step < 3 else 0.02


def steps_of_torch(make, first=FIRST, gradients=gradient, rates=rate, steps=STEPS):
    value = torch.tensor(first, requires_grad=True)
    optimizer = make([value])
    for step in range(steps):
        if rates is not None:
            optimizer.param_groups[0]["lr"] = rates(step)
        value.grad = torch.tensor(gradients(step))
        optimizer.step()
    return value.detach().numpy()


def exact(optimizer):
    """TensorFlow rounds Python's numbers to float32 wherever it meets them; numpy's it keeps."""
    for name, value in list(vars(optimizer).items()):
        if isinstance(value, float):
            setattr(optimizer, name, numpy.float64(value))
    default = inspect.signature(type(optimizer)).parameters["learning_rate"].default
    optimizer.learning_rate = numpy.float64(default)
    return optimizer


def steps_of_keras(optimizer, first=FIRST, gradients=gradient, rates=rate, steps=STEPS):
    optimizer = exact(optimizer)
    value = keras.Variable(first)
    for step in range(steps):
        if rates is not None:
            optimizer.learning_rate = numpy.float64(rates(step))
        optimizer.apply([keras.ops.convert_to_tensor(gradients(step))], [value])
    return value.numpy()


def pair(name, torchs, kerass, **how):
    return (name, steps_of_torch(torchs, **how) if torchs else None, steps_of_keras(kerass, **how))


def optimizers():
    t, k = torch.optim, keras.optimizers
    defaults = {"rates": None}
    yield pair("Sgd", lambda p: t.SGD(p, lr=1), k.SGD())
    yield pair("SgdMomentum", lambda p: t.SGD(p, lr=1, momentum=0.9), k.SGD(momentum=0.9))
    yield pair("SgdNesterov", lambda p: t.SGD(p, lr=1, momentum=0.8, nesterov=True),
               k.SGD(momentum=0.8, nesterov=True))
    yield pair("SgdDecay", lambda p: t.SGD(p, lr=1, momentum=0.9, weight_decay=0.5),
               k.SGD(momentum=0.9, weight_decay=0.5))
    yield pair("Adam", lambda p: t.Adam(p), k.Adam())
    yield pair("AdamEpsilon", lambda p: t.Adam(p, eps=0.1), k.Adam(epsilon=0.1))
    yield pair("AdamDecay", lambda p: t.Adam(p, weight_decay=0.5), k.Adam(weight_decay=0.5))
    yield pair("AdamW", lambda p: t.AdamW(p), k.AdamW())
    yield pair("Adagrad", lambda p: t.Adagrad(p), k.Adagrad())
    yield pair("AdagradEpsilon", lambda p: t.Adagrad(p, eps=0.1), k.Adagrad(epsilon=0.1))
    yield pair("AdagradDecay", lambda p: t.Adagrad(p, weight_decay=0.5),
               k.Adagrad(weight_decay=0.5))
    yield pair("RmsProp", lambda p: t.RMSprop(p), k.RMSprop())
    yield pair("RmsPropEpsilon", lambda p: t.RMSprop(p, eps=0.1), k.RMSprop(epsilon=0.1))
    yield pair("RmsPropMomentum", lambda p: t.RMSprop(p, momentum=0.9), k.RMSprop(momentum=0.9))
    yield pair("RmsPropCentered", lambda p: t.RMSprop(p, centered=True, eps=0.1),
               k.RMSprop(centered=True, epsilon=0.1))
    yield pair("RmsPropDecay", lambda p: t.RMSprop(p, weight_decay=0.5),
               k.RMSprop(weight_decay=0.5))
    # Not even the rate is given.
    yield pair("AdamDefaults", lambda p: t.Adam(p), k.Adam(), **defaults)
    yield pair("AdamWDefaults", lambda p: t.AdamW(p), k.AdamW(), **defaults)
    yield pair("AdagradDefaults", lambda p: t.Adagrad(p), k.Adagrad(), **defaults)
    yield pair("RmsPropDefaults", lambda p: t.RMSprop(p), k.RMSprop(), **defaults)
    yield pair("FtrlDefaults", None, k.Ftrl(), **defaults)
    # Three steps along a tiny gradient; a rate that falls after two of four steps.
    ones = numpy.ones(4)
    yield pair("RmsPropTinyGradient", lambda p: t.RMSprop(p, alpha=0.9, eps=1e-7), k.RMSprop(),
               first=ones,
               gradients=lambda step: 1e-6 * ones, rates=lambda step: 0.01, steps=3)
    yield pair("MomentumFallingRate", lambda p: t.SGD(p, lr=1, momentum=0.9), k.SGD(momentum=0.9),
               first=ones, gradients=lambda step: ones,
               rates=lambda step: 0.1 if step < 2 else 0.01, steps=4)


def batch(step):
    """Of 3 examples with 2 channels."""
    return (numpy.sin(0.7 * numpy.arange(6) + 1.1 * step) + numpy.arange(6) % 2).reshape(3, 2)


def norms():
    """The last output in training, the moving mean and variance, an output in inference."""
    ours = torch.nn.BatchNorm1d(2)
    theirs = keras.layers.BatchNormalization()
    for step in range(3):
        last = ours(torch.tensor(batch(step))).detach().numpy()
        keras_last = theirs(batch(step), training=True).numpy()
    ours.eval()
    yield "batch_norm_training", last, keras_last
    yield "batch_norm_moving_mean", ours.running_mean.numpy(), theirs.moving_mean.numpy()
    yield "batch_norm_moving_variance", ours.running_var.numpy(), theirs.moving_variance.numpy()
    yield ("batch_norm_inference", ours(torch.tensor(batch(3))).detach().numpy(),
           theirs(batch(3), training=False).numpy())
    own = torch.nn.BatchNorm1d(2, momentum=0.25)
    own(torch.tensor(batch(0)))
    other = keras.layers.BatchNormalization(momentum=0.75)
    other(batch(0), training=True)
    yield "batch_norm_momentum", own.running_var.numpy(), other.moving_variance.numpy()
    small = 0.01 * batch(0)
    yield ("layer_norm", torch.nn.LayerNorm(2)(torch.tensor(small)).detach().numpy(),
           keras.layers.LayerNormalization()(small).numpy())


def text(values):
    if values is None:
        return "{}"
    return "{" + ", ".join(repr(float(value)) for value in numpy.ravel(values)) + "}"


def main():
    print("#pragma once\n")
    print("// Written by record_optimizers.py with "
          f"torch {torch.__version__}, tensorflow {tensorflow.__version__} and "
          f"keras {keras.__version__}.\n")
    print("#include <vector>\n\nnamespace cohort::recorded {\n")
    print("struct Values {\n  const char* name;\n  std::vector<double> torch;\n"
          "  std::vector<double> tensorflow;\n};\n")
    for name, all_values in (("kOptimizers", optimizers()), ("kNorms", norms())):
        print(f"inline const Values {name}[] = {{")
        for case, torchs, kerass in all_values:
            print(f'    {{"{case}", {text(torchs)}, {text(kerass)}}},')
        print("};\n")
    print("}  // namespace cohort::recorded")


if __name__ == "__main__":
    main()
