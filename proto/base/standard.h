/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A process may be started with standard input, output or error closed. The next descriptor would
 * get that number: a socket would be written to as output, or be closed or inherited as such. So
 * this occupies each free number in such a way that reading or writing still fails, and that a
 * program which this one executes finds the number closed again. To be called first in main(). */
void standard_hold(void);

/* At the end of main(): 0, or a negative errno if something that was printed could not be written.
 */
int standard_flush(void);
