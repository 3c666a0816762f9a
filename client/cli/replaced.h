/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* CUDA and NVTX load one library each by an environment variable. */

/* Warns of another tool's library that those of added ("NAME=value", NULL-terminated) take the
 * place of in the program. */
void replaced_tell(const char *const *added);
