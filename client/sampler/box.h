/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Installs a seccomp filter in all threads, once NVIDIA's libraries are open: whoever takes these
 * over cannot execute another program, look into other processes or reach a network. Does nothing
 * if the kernel has no such filters, or libgpuctr-permit.so would not ask the daemon under one. */
void box_enter(void);
