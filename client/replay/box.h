/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_REPLAY_BOX_H
#define GPUCTR_REPLAY_BOX_H

/* For the process that evaluates: from here on it has the descriptor fd and no other, computes, and
 * can do nothing else. 0 or -errno. */
int box_enter(int fd);

#endif
