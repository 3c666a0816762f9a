/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Carries out what the broker has decided: writes lines, sends messages, asks the granter and the
 * gpu process. */

struct front;

/* Carries out effects until there are none. A call from within an effect does nothing: the outer
 * call carries out what was added. */
void effects_carry_out(struct front *f);
