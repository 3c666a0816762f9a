/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* To be called once NVIDIA's libraries are open: whoever takes them over cannot make the sampler,
 * in all of its threads, another program, look into other processes or reach a network. Does
 * nothing where the kernel has no filters, or an injected permit would not ask the daemon under
 * one. */
void box_enter(void);
