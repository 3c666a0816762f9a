/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Confines the process that evaluates: from now on it has no descriptor but fd, can compute, and
 * can do nothing else. 0 or -errno. */
int box_enter(int fd);
