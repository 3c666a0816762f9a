/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gpuctr/gpuctr.h>
#include <stdbool.h>

/* Sets variables in this process's environment that turn on PyTorch's NVTX markers in the program
 * that inherits them. what: "operators" or "modules"; agent: the value of --agent, or NULL. False:
 * an error was printed. */
bool torch_prepare(const char *what, const char *agent);

/* Was the kernel launched within an operator of PyTorch? */
bool torch_has_operator(const struct gpuctr_record *record);
