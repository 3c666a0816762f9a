/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A process may be started with standard input, output or error closed. The next descriptor would
 * get that number: output would go into a socket, or a child would inherit it. So this occupies
 * each free number with a descriptor on which reading or writing still fails, and which is closed
 * when the process executes a program. To be called first in main(). */
void standard_hold(void);

/* At the end of main(): 0, or a negative errno if printed text could not be written. */
int standard_flush(void);
