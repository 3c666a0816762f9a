/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Who starts us may have closed standard input, output or error. What is opened next would get
 * that number: a socket would then be written to as output, and be closed or inherited as such.
 * Takes each number that is free, so that it can still be neither read nor written, and so that
 * what we exec finds it closed as we did. To be called first in main(). */
void standard_hold(void);
