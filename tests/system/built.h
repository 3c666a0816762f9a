/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where what was built can be executed by the users that tests become. */

/* The path of a file of the build folder, by its name there; ours. */
const char *built_path(const char *name);

#define CLIENT built_path("client/cli/gpuctr-client")
#define FAKEAPP built_path("tests/fake/fakeapp")
#define TEST_DAEMON built_path("daemon/gpucountd")
#define TEST_DOCTOR built_path("daemon/gpucountd-doctor")
#define TEST_AGENT built_path("client/agent/libgpuctr-agent.so")
#define TEST_REPLAY built_path("client/replay/gpuctr-replay")
#define TEST_SAMPLER built_path("client/sampler/gpuctr-sampler")
#define TEST_ENABLE built_path("tests/system/enable")
#define TEST_FAKESERVE built_path("tests/fake/fakeserve")
#define TEST_FAKEWAIT built_path("tests/fake/fakewait")
#define TEST_FAKEDELAY built_path("tests/fake/fakedelay")
#define TEST_FAKEFIELDS built_path("tests/fake/fakefields")
#define TEST_FAKENVTX built_path("tests/fake/fakenvtx")
#define TEST_FAKEPROFILER built_path("tests/fake/fakeprofiler")
#define TEST_FAKECTL built_path("tests/fake/fakectl")
#define TEST_FAKE_DRIVER built_path("tests/fake/libfakedriver.so")
#define TEST_FAKE_FAIL built_path("tests/fake/libfakefail.so")
#define TEST_FAKE_LIBRARIES built_path("tests/fake")

/* From now on files are those of this build folder, or copies of them when the users cannot reach
 * it; until built_close(). 0, or -1 when they cannot be copied. */
int built_open(const char *build);
void built_close(void);

/* For cmocka: the folder that this test was built in. */
int built_setup(void **state);
int built_teardown(void **state);
