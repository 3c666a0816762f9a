/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

int main(int argc, char **argv)
{
	return unit_run_part(argc > 1 ? argv[1] : "");
}
