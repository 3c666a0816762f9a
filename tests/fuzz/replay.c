/* SPDX-License-Identifier: Apache-2.0 */

/* The main of a target that is built without libFuzzer: runs it on every file of a folder, in the
 * order of their names, so that what a fuzzer has found once is a test of every build. */

#include <dirent.h>
#include <sys/stat.h>

#include "proto/base/clean.h"
#include "tests/fuzz/fuzz.h"

static int replay(const char *path)
{
	CLEAN_FILE FILE *f = fopen(path, "re");
	CLEAN_FREE uint8_t *data = NULL;
	struct stat st;

	if (!f || fstat(fileno(f), &st) < 0) {
		perror(path);
		return 1;
	}
	data = malloc((size_t)st.st_size + 1);
	if (!data || fread(data, 1, (size_t)st.st_size, f) != (size_t)st.st_size) {
		fprintf(stderr, "%s: cannot be read\n", path);
		return 1;
	}
	/* Before the run: the last line on stderr names the input that did not survive. */
	fprintf(stderr, "%s\n", path);
	LLVMFuzzerTestOneInput(data, (size_t)st.st_size);
	return 0;
}

int main(int argc, char **argv)
{
	struct dirent **entries = NULL;
	char path[4096];
	int n, failed = 0, played = 0;

	if (argc != 2) {
		fprintf(stderr, "Usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	n = scandir(argv[1], &entries, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		if (entries[i]->d_name[0] != '.') {
			snprintf(path, sizeof(path), "%s/%s", argv[1], entries[i]->d_name);
			failed |= replay(path);
			played++;
		}
		free(entries[i]);
	}
	free(entries);
	printf("%d inputs\n", played);
	return failed || played == 0 ? 1 : 0;
}
