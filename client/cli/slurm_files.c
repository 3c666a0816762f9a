/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/slurm_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/expand.h"
#include "client/cli/outfile.h"
#include "client/cli/say.h"

/* Of a file system that the nodes share with us. It is opened, because NFS knows no better before.
 * What is there and another file is not replaced. */
static bool is_same(const struct brought *file)
{
	int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	bool same = fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == file->inode &&
		    st.st_size == file->size && st.st_mtim.tv_sec == file->time_s &&
		    st.st_mtim.tv_nsec == file->time_ns;

	if (fd >= 0) {
		close(fd);
	}
	return same;
}

static bool copy(int from, int to)
{
	char block[65536];
	bool whole = true;
	ssize_t n;

	while ((n = read(from, block, sizeof(block))) > 0) {
		whole &= write(to, block, (size_t)n) == n;
	}
	return whole && n == 0;
}

/* By a step that writes the file to its standard output. */
static bool fetch_into(const struct brought *file, int out)
{
	struct words w = { .n = 0 };
	bool whole;
	pid_t pid;
	int fd;

	slurm_add_word(&w, "srun");
	slurm_add_place(&w, file->job);
	snprintf(w.text[1], sizeof(w.text[1]), "--nodelist=%s", file->node);
	slurm_add_word(&w, w.text[1]);
	slurm_add_word(&w, "--overlap");
	slurm_add_word(&w, "--nodes=1");
	slurm_add_word(&w, "--ntasks=1");
	slurm_add_word(&w, "--gres=none");
	slurm_add_word(&w, "--mpi=none");
	slurm_add_word(&w, "--input=none");
	slurm_add_word(&w, "--quiet");
	slurm_add_word(&w, "cat");
	slurm_add_word(&w, "--");
	slurm_add_word(&w, file->path);
	slurm_add_word(&w, NULL);
	if (slurm_start(w.items, &pid, &fd) != 0) {
		return false;
	}
	whole = copy(fd, out);
	close(fd);
	return slurm_wait_status(pid) == 0 && whole && fsync(out) == 0;
}

static bool fetch(const struct brought *file)
{
	char part[PATH_MAX];
	bool whole;
	int out;

	snprintf(part, sizeof(part), "%.4000s.part", file->path);
	if (expand_make_folders(file->path) < 0) {
		return false;
	}
	out = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (out < 0) {
		return false;
	}
	whole = fetch_into(file, out);
	whole = close(out) == 0 && whole;
	whole = whole && outfile_publish(part, file->path, false) == 0;
	if (!whole) {
		unlink(part);
	}
	return whole;
}

void slurm_gather_files(const struct gathering *g)
{
	for (size_t i = 0; i < g->n_files; i++) {
		const struct brought *file = &g->files[i];

		/* What a node says is not to choose where we write. */
		if (!expand_can_give(g->options->capture_path ? g->options->capture_path : "",
				     file->path)) {
			say("%s names %s, which -o cannot give: nothing is brought from there",
			    file->node, file->path);
		} else if (is_same(file)) {
			continue;
		} else if (faccessat(AT_FDCWD, file->path, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
			say("%s is another file here: the one of %s stays there", file->path,
			    file->node);
		} else if (fetch(file)) {
			say("%s: brought from %s", file->path, file->node);
		} else {
			say("%s could not be brought here; it is on %s", file->path, file->node);
		}
	}
}
