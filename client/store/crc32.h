/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_STORE_CRC32_H
#define CLIENT_STORE_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32 of zlib, PNG and Ethernet (reflected 0xEDB88320). crc32_update(0, "123456789", 9) is
 * 0xCBF43926, and a buffer may be given in pieces: crc = crc32_update(crc, piece, size). */
uint32_t crc32_update(uint32_t crc, const void *data, size_t size);

#endif
