/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Confines the process that evaluates: from now on it has no descriptor but fd, and can do nothing
 * but compute. 0 or -errno. */
int box_enter(int fd);
