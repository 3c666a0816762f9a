/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Descriptors of the agent's in a process that may close what it does not know. */

#include <sys/types.h>

/* The lowest number for the agent's descriptors, out of the way of programs that rely on small
 * numbers or close them. A program gets such a number only if it has as many files open, or asks
 * for it. */
int descriptor_high_number(void);

/* Identifies the socket's file among others; 0: fd is not open. */
ino_t descriptor_file(int fd);

/* Closes fd if it is still that file. For a forked child, whose connection is the parent's to use.
 */
void descriptor_leave(int fd, ino_t file);
