/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The agent's descriptors, in a process that may close all descriptors that it does not know. */

#include <sys/types.h>

/* The lowest number for the agent's descriptors. It is high, because programs rely on small numbers
 * or close them; a program gets it only by opening as many files, or on request. */
int descriptor_high_number(void);

/* Inode of the socket at fd; 0: fd is not open, or is no socket. */
ino_t descriptor_file(int fd);

/* Closes fd if it is still that socket. A forked child closes only its copy. */
void descriptor_leave(int fd, ino_t file);
