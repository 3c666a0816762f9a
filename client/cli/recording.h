/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_RECORDING_H
#define CLIENT_CLI_RECORDING_H

#include "client/cli/options.h"

/* Looks for a capture file among the words of a command, behind its first. False: there is none.
 * Else its metrics are appended to metrics unless that is NULL, and *ret_chip is its chip (free
 * it; NULL: out of memory). */
bool recording_find(char *const *command, struct strings *metrics, char **ret_chip);

#endif
