/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For a daemon that systemd has started and that cannot read its settings: tells everybody who
 * connects within the next two seconds why they are not served. Without sockets of systemd's it
 * returns at once. */
void turnaway_run(void);
