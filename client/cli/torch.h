/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_TORCH_H
#define CLIENT_CLI_TORCH_H

#include <gpuctr/gpuctr.h>
#include <stdbool.h>

/* Puts into our own environment, for the program that will inherit it, what turns on PyTorch's NVTX
 * markers there. what: "operators" or "modules"; agent: as --agent has it, or NULL. false: told
 * why. */
bool torch_prepare(const char *what, const char *agent);

/* Was it launched within an operator? */
bool torch_has_operator(const struct gpuctr_record *record);

#endif
