# SPDX-License-Identifier: Apache-2.0
"""A training whose convolutions XLA autotunes: a kernel that waits for the CPU before each one that it times."""
import os
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
try:
    import jax
    import jax.numpy as jnp
    from jax import lax
except ImportError as e:
    print(f"missing {e.name}")
    sys.exit(77)

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 30
WIDTHS = (3, 32, 64, 128, 128)


def initial(key):
    keys = jax.random.split(key, len(WIDTHS))
    layers = [jax.random.normal(k, (3, 3, a, b)) * 0.05 for k, a, b in zip(keys, WIDTHS, WIDTHS[1:])]
    return layers, jax.random.normal(keys[-1], (WIDTHS[-1], 10)) * 0.05


def loss_of(parameters, x, labels):
    layers, head = parameters
    for i, w in enumerate(layers):
        x = jax.nn.relu(lax.conv_general_dilated(x, w, (1 + i % 2,) * 2, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
    logits = x.mean((1, 2)) @ head
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


@jax.jit
def step(parameters, x, labels):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, x, labels)
    return jax.tree_util.tree_map(lambda p, g: p - 0.01 * g, parameters, gradients), loss


key = jax.random.PRNGKey(1)
parameters = initial(key)
x, labels = jax.random.normal(key, (64, 64, 64, 3)), jax.random.randint(key, (64,), 0, 10)
begin = time.time()
parameters, loss = step(parameters, x, labels)
loss.block_until_ready()
compiled = time.time()
for _ in range(STEPS):
    parameters, loss = step(parameters, x, labels)
loss.block_until_ready()
print(f"first step {compiled - begin:.2f} s, {STEPS} steps {time.time() - compiled:.2f} s, loss {float(loss):.3f}")
