/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Of the front's box: closing what users have sent takes as long as the test says. The box aborts
 * when the front closes such a thing by itself, or holds more of a user's than it may. */

#include <stdbool.h>

void fd_reaper_box_begin(void);
void fd_reaper_box_end(void); /* all is closed then */

/* What peers attach: the front may not close it. */
int fd_reaper_box_attachment(void);
bool fd_reaper_box_is_attachment(int fd);

void fd_reaper_box_hold(bool hold);
void fd_reaper_box_turn(void);

/* As the box itself, which may close everything. */
void fd_reaper_box_close(int fd);
