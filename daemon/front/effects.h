/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_EFFECTS_H
#define GPUCTR_FRONT_EFFECTS_H

/* Carries out what the broker has decided: writes lines, sends messages, asks the granter and the
 * gpu process. */

struct front;

/* Carries out effects until there are none. Does nothing when it is called while effects are
 * carried out: that call comes to the new ones. */
void effects_carry_out(struct front *f);

#endif
