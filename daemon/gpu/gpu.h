/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The gpu process: answers STATUS_REQUEST and TENANTS_REQUEST frames of the front on link, a stream
 * socket, until its end. It receives no byte that a user sent. Returns the exit status. */
int gpu_run(int link);
