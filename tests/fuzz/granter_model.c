/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/granter_model.h"

#include <errno.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/nvidia/rm.h"
#include "tests/fuzz/fuzz.h"

/* What a granter has promised (R26), written once more from its head comment: leases with an owner,
 * and a set of GPUs, and objects that belong to a lease, a file and a process.
 *
 * The model foresees the reply to every packet. An ioctl is only looked at when it comes: whatever
 * made it, it must be the one that a packet without a reply allows. While a thread hangs, what
 * needs it has no reply. */

static struct model_lease *model_find(uint64_t id)
{
	for (unsigned i = 0; i < box.n_leases; i++) {
		if (box.leases[i].id == id) {
			return &box.leases[i];
		}
	}
	return NULL;
}

static void model_remove(struct model_lease *l)
{
	fuzz_check(l->objects == 0);
	*l = box.leases[--box.n_leases];
}

/* The thread that does not return from a call for the lease, or NULL. */
static const struct box_thread *stuck_thread(uint64_t lease)
{
	for (unsigned i = 0, left = box.n_stuck; left > 0; i++) {
		const struct box_thread *h = &box.threads[i];
		bool stuck = h->busy && h->hangs;

		if (stuck && h->lease == lease) {
			return h;
		}
		left -= stuck;
	}
	return NULL;
}

/* Is a lease open, or waiting to be? */
static bool has_wanted(void)
{
	for (unsigned i = 0; i < box.n_leases; i++) {
		if (!box.leases[i].ending) {
			return true;
		}
	}
	for (unsigned i = 0; i < box.n_waiting; i++) {
		if (box.waiting[i].q.op == GRANTER_OPEN) {
			return true;
		}
	}
	return false;
}

bool model_is_silent(void)
{
	return box.now_ns - box.heard_ns >= GRANTER_SILENCES * GRANTER_SILENCE_NS;
}

/* However long a look at the clock takes, the granter sleeps for no longer than the periods. */
bool model_is_overdue(void)
{
	return !box.at_end && has_wanted() &&
	       box.now_ns - box.heard_ns >
		       box.looked_ns + GRANTER_SILENCES * (GRANTER_SILENCE_NS + CLOCK_NS_PER_MS);
}

uint64_t model_next_ns(void)
{
	uint64_t next = has_wanted() ? box.now_ns + GRANTER_SILENCE_NS : UINT64_MAX;

	for (unsigned i = 0; i < box.n_leases; i++) {
		const struct model_lease *l = &box.leases[i];
		const struct box_thread *h = stuck_thread(l->id);

		if (h && !l->hung && h->since_ns + GRANTER_HUNG_NS < next) {
			next = h->since_ns + GRANTER_HUNG_NS;
		}
	}
	return next;
}

/* --- what a packet must fulfil --- */

/* The lease that waits to be opened, or NULL. */
static struct model_asked *find_opening(uint64_t id)
{
	for (unsigned i = 0; i < box.n_waiting; i++) {
		struct model_asked *a = &box.waiting[i];

		if (a->q.op == GRANTER_OPEN && a->q.lease == id) {
			return a;
		}
	}
	return NULL;
}

static unsigned count_asked(const struct granter_request *q, enum granter_op op)
{
	unsigned n = 0;

	for (unsigned i = 0; i < box.n_waiting; i++) {
		const struct granter_request *other = &box.waiting[i].q;

		n += other->op == op && (!q || other->lease == q->lease);
	}
	return n;
}

static bool overlaps_opening(uint64_t gpus)
{
	for (unsigned i = 0; i < box.n_waiting; i++) {
		if (box.waiting[i].q.op == GRANTER_OPEN && (box.waiting[i].q.gpus & gpus) != 0) {
			return true;
		}
	}
	return false;
}

static int model_open(const struct granter_request *q)
{
	bool hung = false;

	if (q->lease == 0 || q->gpus == 0 || q->device > 1) {
		return -EINVAL;
	}
	if (find_opening(q->lease) || overlaps_opening(q->gpus)) {
		return -EBUSY;
	}
	for (unsigned i = 0; i < box.n_leases; i++) {
		const struct model_lease *l = &box.leases[i];

		if (l->id == q->lease || (!l->ending && (l->gpus & q->gpus) != 0)) {
			return -EBUSY;
		}
		hung = hung || (l->hung && (l->gpus & q->gpus) != 0);
	}
	if (box.n_leases + count_asked(NULL, GRANTER_OPEN) == GRANTER_LEASES_MAX) {
		return -ENOSPC;
	}
	return hung ? -ETIMEDOUT : 0;
}

/* Was the client made on the file that comes with the packet? The others are other programs'. */
static bool box_client_is_own(uint32_t client)
{
	return client % 8 != 7;
}

/* Is the parent a subdevice of the lease's first GPU? The others are of a GPU that none has. */
static bool parent_is_leased(uint32_t parent)
{
	return parent % 8 != 7;
}

struct rm_gpu box_gpu(unsigned i)
{
	return (struct rm_gpu){ { 0xa0, (uint8_t)i } };
}

/* As many objects as there may be? Of a thread that hangs one may be asked for that has its answer
 * already. */
static bool all_are_asked_for(void)
{
	return box.n_objects + count_asked(NULL, GRANTER_ALLOC) + box.n_stuck >=
	       GRANTER_OBJECTS_MAX;
}

/* What a packet that asks for an object must fulfil before the driver hears of it. */
static int model_alloc(const struct granter_request *q, enum box_file file)
{
	struct model_lease *l = model_find(q->lease);
	unsigned asked;

	if (!l || l->ending || l->uid != q->uid) {
		return -ENOENT;
	}
	if (q->root == 0 || q->parent == 0 || q->object == 0) {
		return -EINVAL;
	}
	if (q->object_class != 0xb2cc ||
	    (q->client_target == 0 && !(l->device && q->context_target == 0))) {
		return -EPERM;
	}
	if (file != BOX_CONTROL_DEVICE) {
		return -EBADF;
	}
	if (!box_has_process(q->pid)) {
		return q->pid == 0 || q->pid > INT32_MAX ? -EINVAL : -ESRCH;
	}
	asked = l->objects + count_asked(q, GRANTER_ALLOC);
	if (asked >= GRANTER_OBJECTS_PER_LEASE_MAX) {
		l->surplus++;
	} else {
		box.surplus += all_are_asked_for();
	}
	if (q->client_target != 0 && !box_client_is_own(q->client_target)) {
		return -EPERM;
	}
	return parent_is_leased(q->parent) ? 0 : -EXDEV;
}

static int model_foresee(const struct granter_request *q, enum box_file file)
{
	const struct model_lease *l = model_find(q->lease);
	bool open = l && !l->ending;

	if (q->op != GRANTER_ALLOC && file != BOX_NO_FILE) {
		return -EINVAL;
	}
	switch (q->op) {
	case GRANTER_OPEN:
		return model_open(q);
	case GRANTER_CLOSE:
		return open || find_opening(q->lease) ? 0 : -ENOENT;
	case GRANTER_ALLOC:
		return model_alloc(q, file);
	case GRANTER_PING:
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

void model_begin(enum box_file file, unsigned n_files)
{
	struct model_asked *a = &box.current;
	struct model_lease *l = model_find(a->q.lease);

	box.handling = true;
	box.calm = box.n_stuck == 0;
	a->driver_asked = false;
	a->generation = box.generations[a->q.pid % BOX_PIDS];
	a->expected = n_files > 1 ? -EBADMSG : model_foresee(&a->q, file);
	if (a->q.op == GRANTER_CLOSE && a->expected == 0 && l) {
		l->ending = true;
	}
}

/* --- replies --- */

/* Only what a thread that hangs has to do first. */
void model_set_aside(void)
{
	const struct granter_request *q = &box.current.q;
	bool excused = false;

	fuzz_check(q->op == GRANTER_OPEN || q->op == GRANTER_CLOSE || q->op == GRANTER_ALLOC);
	for (unsigned i = 0; i < box.n_leases; i++) {
		const struct model_lease *l = &box.leases[i];

		if (stuck_thread(l->id) &&
		    (q->op == GRANTER_OPEN ? (l->gpus & q->gpus) != 0 : l->id == q->lease)) {
			fuzz_check(q->op != GRANTER_OPEN || l->ending);
			excused = true;
		}
	}
	fuzz_check(excused && box.n_waiting < WAITING_MAX);
	box.waiting[box.n_waiting++] = box.current;
	box.handling = false;
}

static void model_apply(const struct granter_request *q)
{
	struct model_lease *l = model_find(q->lease);

	switch (q->op) {
	case GRANTER_OPEN:
		for (unsigned i = 0; i < box.n_leases; i++) {
			fuzz_check((box.leases[i].gpus & q->gpus) == 0);
		}
		box.leases[box.n_leases++] = (struct model_lease){
			.id = q->lease,
			.gpus = q->gpus,
			.uid = q->uid,
			.device = q->device == 1,
		};
		box.figures.opened++;
		break;
	case GRANTER_CLOSE:
		if (l) { /* else it was not open yet */
			model_remove(l);
		}
		break;
	default:
		break;
	}
}

static void forget_object(struct box_fd *f)
{
	struct model_lease *l = model_find(f->lease);

	f->allocated = false;
	box.n_objects--;
	fuzz_check(l && l->objects > 0);
	l->objects--;
}

static bool has_hung_for_long(uint64_t lease)
{
	const struct box_thread *h = stuck_thread(lease);

	return h && box.now_ns >= h->since_ns + GRANTER_HUNG_NS;
}

static void check_event(const struct granter_reply *p)
{
	struct model_lease *l = model_find(p->lease);

	fuzz_check(l && p->id == 0 && p->error == 0 && p->status == 0 && p->gpus == l->gpus);
	switch (p->op) {
	case GRANTER_HUNG:
		fuzz_check(!l->hung && has_hung_for_long(l->id));
		l->hung = l->ending = true;
		box.figures.hung++;
		break;
	case GRANTER_ANSWERS:
		fuzz_check(l->hung && !stuck_thread(l->id));
		model_remove(l);
		break;
	default:
		fuzz_fail("the granter says op %u unasked", p->op);
	}
}

static bool lease_is_hung(const struct model_lease *l)
{
	return l->hung;
}

/* Is there such a lease on one of these GPUs? */
static bool overlaps(uint64_t gpus, bool (*is)(const struct model_lease *l))
{
	for (unsigned i = 0; i < box.n_leases; i++) {
		if ((box.leases[i].gpus & gpus) != 0 && is(&box.leases[i])) {
			return true;
		}
	}
	return false;
}

/* Files that the granter has for a lease: each object has one, until nothing of it is left. */
static unsigned count_files(uint64_t lease)
{
	unsigned n = 0;

	for (unsigned i = 0; i < FDS_MAX; i++) {
		n += fds[i].kind == FD_FILE && fds[i].asked_lease == lease;
	}
	return n;
}

static bool has_no_room(const struct model_lease *l, const struct granter_request *q)
{
	if (stuck_thread(l->id) && count_files(l->id) >= 2 * GRANTER_OBJECTS_PER_LEASE_MAX) {
		return true;
	}
	if (stuck_thread(l->id) &&
	    l->objects + count_asked(q, GRANTER_ALLOC) >= GRANTER_OBJECTS_PER_LEASE_MAX) {
		return true;
	}
	return box.n_stuck > 0 && (all_are_asked_for() || box.n_fds >= 2 * GRANTER_OBJECTS_MAX);
}

/* Reasons that came up after the request was taken. */
static bool is_excused(const struct model_asked *a, int error)
{
	const struct model_lease *l = model_find(a->q.lease);

	switch (error) {
	case -ETIMEDOUT:
		return a->q.op == GRANTER_OPEN	  ? overlaps(a->q.gpus, lease_is_hung)
		       : a->q.op == GRANTER_CLOSE ? has_hung_for_long(a->q.lease)
						  : a->q.op == GRANTER_ALLOC && l && l->hung;
	case -ENOSPC: /* all that there may be is asked for, and nothing held that could go */
		return a->q.op == GRANTER_ALLOC && l && has_no_room(l, &a->q);
	case -ECANCELED:
		return a->q.op == GRANTER_OPEN && box.handling &&
		       box.current.q.op == GRANTER_CLOSE && box.current.q.lease == a->q.lease;
	case -ENOENT:
		return a->q.op == GRANTER_ALLOC && l && l->ending;
	case -ESRCH:
		return a->q.op == GRANTER_ALLOC &&
		       box.generations[a->q.pid % BOX_PIDS] != a->generation;
	default:
		return false;
	}
}

/* Of one that was asked of the driver, or would have been. */
static void check_result(const struct model_asked *a, const struct granter_reply *p)
{
	const struct granter_request *q = &a->q;
	int expected = a->expected;

	fuzz_check(p->op == q->op && p->id == q->id && p->lease == q->lease && p->gpus == 0);
	if (q->op == GRANTER_ALLOC && expected == 0 && a->driver_asked) {
		expected = a->driver_error;
		fuzz_check(p->error != expected ||
			   p->status == (expected == 0 ? a->driver_status : 0));
	} else {
		fuzz_check(!a->driver_asked && p->status == 0);
		fuzz_check(q->op != GRANTER_ALLOC || p->error != 0);
	}
	if (p->error != expected && !is_excused(a, p->error)) {
		fuzz_fail("op %u: the answer is %d, not %d", q->op, p->error, expected);
	}
	if (p->error == 0) {
		model_apply(q);
	}
}

void model_check_reply(const struct granter_reply *p)
{
	fuzz_check(p->size == sizeof(*p));
	if (box.handling && p->id == box.current.q.id) {
		check_result(&box.current, p);
		box.handling = false;
		box.figures.replies++;
		return;
	}
	for (unsigned i = 0; i < box.n_waiting; i++) {
		if (box.waiting[i].q.id == p->id) {
			check_result(&box.waiting[i], p);
			box.n_waiting--;
			memmove(&box.waiting[i], &box.waiting[i + 1],
				(box.n_waiting - i) * sizeof(box.waiting[0]));
			box.figures.replies++;
			return;
		}
	}
	check_event(p);
}

/* --- what reaches the driver --- */

/* The request that brought f. */
static struct model_asked *find_asked(const struct box_fd *f)
{
	if (box.handling && f == fd_find(box.current.fd)) {
		return &box.current;
	}
	for (unsigned i = 0; i < box.n_waiting; i++) {
		if (f == fd_find(box.waiting[i].fd)) {
			return &box.waiting[i];
		}
	}
	return NULL;
}

void model_forget_file(const struct box_fd *f)
{
	struct model_asked *a = find_asked(f);

	if (a) {
		a->fd = -1;
	}
}

/* The address is at no place of the data. Looked for by the one of its bytes that is rare there:
 * requests are noise and zeroes, like the highest two. */
static void check_has_not(const void *data, size_t n, uint64_t address)
{
	enum { RARE = 5 };
	const uint8_t *end = (const uint8_t *)data + n - sizeof(address) + RARE + 1;

	for (const uint8_t *at = (const uint8_t *)data + RARE;
	     (at = memchr(at, (int)(address >> 8 * RARE & 0xff), (size_t)(end - at))) != NULL;
	     at++) {
		fuzz_check(memcmp(at - RARE, &address, sizeof(address)) != 0);
	}
}

/* Nothing of the packet but five numbers: R3. */
static void check_alloc_arguments(const struct granter_request *q, const struct rm_alloc *a)
{
	const struct rm_profiler_parameters *p =
		(const struct rm_profiler_parameters *)(uintptr_t)a->parameters;

	fuzz_check(a->root == q->root && a->parent == q->parent && a->object == q->object);
	fuzz_check(a->root != 0 && a->parent != 0 && a->object != 0);
	fuzz_check(a->object_class == 0xb2cc);
	fuzz_check(a->rights == 0 && a->parameters_size == 0 && a->flags == 0 && a->status == 0 &&
		   a->padding == 0);
	fuzz_check(p && p->client_target == q->client_target &&
		   p->context_target == q->context_target);
	fuzz_check(p->client_target != 0 ? box_client_is_own(p->client_target)
					 : model_find(q->lease)->device && p->context_target == 0);
	check_has_not(q, sizeof(*q), a->parameters);
	/* The box's own memory is what a front could know of. */
	fuzz_check((uintptr_t)p < (uintptr_t)&box || (uintptr_t)p >= (uintptr_t)(&box + 1));
}

static void note_allocated(struct box_fd *f, struct model_lease *l, const struct rm_alloc *a,
			   const struct model_asked *asked)
{
	f->allocated = true;
	f->lease = l->id;
	f->pid = asked->q.pid;
	f->generation = asked->generation;
	f->root = a->root;
	f->parent = a->parent;
	f->object = a->object;
	l->objects++;
	box.n_objects++;
	fuzz_check(l->objects <= GRANTER_OBJECTS_PER_LEASE_MAX);
	fuzz_check(box.n_objects <= GRANTER_OBJECTS_MAX || box.n_stuck > 0);
	box.figures.grants++;
}

int model_drive_alloc(struct box_fd *f, struct rm_alloc *a)
{
	struct model_asked *asked = f ? find_asked(f) : NULL;
	struct model_lease *l = asked ? model_find(asked->q.lease) : NULL;

	fuzz_check(asked && asked->q.op == GRANTER_ALLOC && !asked->driver_asked);
	fuzz_check(asked->expected == 0 && f->file == BOX_CONTROL_DEVICE && !f->allocated);
	fuzz_check(l && !l->ending && l->uid == asked->q.uid);
	check_alloc_arguments(&asked->q, a);
	box.figures.allocs++;
	asked->driver_asked = true;
	asked->driver_error = -box.step.driver_errno;
	asked->driver_status = box.step.driver_status;
	if (box.step.driver_errno != 0) {
		errno = box.step.driver_errno;
		return -1;
	}
	a->status = box.step.driver_status;
	if (a->status == RM_STATUS_OK) {
		note_allocated(f, l, a, asked);
	}
	return 0;
}

static bool is_largest(const struct model_lease *l)
{
	for (unsigned i = 0; i < box.n_leases; i++) {
		if (box.leases[i].objects > l->objects) {
			return false;
		}
	}
	return true;
}

/* Nobody loses an object but at the end of its lease or of its process, or to another one: of the
 * same lease when it has too many, or of any when all together have, and then the largest one. */
static void check_end_of_object(const struct box_fd *f)
{
	struct model_lease *l = model_find(f->lease);

	fuzz_check(l);
	if (l->ending || has_exited(f) || box.malformed || box.ended || box.at_end ||
	    model_is_silent()) {
		return;
	}
	if (l->surplus > 0) {
		l->surplus--;
		return;
	}
	/* What a thread that hung frees late was the largest one's earlier. */
	fuzz_check(box.surplus > 0 && (!box.handling || !box.calm || is_largest(l)));
	box.surplus--;
}

/* Object 0 is nobody's: who asks to free it learns whether the file has the client. */
static int drive_question(const struct model_asked *asked, const struct box_fd *f,
			  struct rm_free *p)
{
	fuzz_check(asked->q.op == GRANTER_ALLOC && !asked->driver_asked);
	fuzz_check(asked->expected == 0 || asked->expected == -EPERM || asked->expected == -EXDEV);
	fuzz_check(f->file == BOX_CONTROL_DEVICE);
	fuzz_check(p->root == asked->q.client_target && p->parent == p->root && p->status == 0);
	p->status = box_client_is_own(p->root) ? RM_STATUS_OK : 0x23;
	return 0;
}

/* Before and after the allocation the granter asks whose subdevice the parent is, and nothing else.
 */
int model_drive_control(const struct box_fd *f, struct rm_control *p)
{
	struct rm_gpu_id_parameters *id = (struct rm_gpu_id_parameters *)(uintptr_t)p->parameters;
	const struct model_asked *asked = f ? find_asked(f) : NULL;
	const struct model_lease *l = asked ? model_find(asked->q.lease) : NULL;
	struct rm_gpu gpu;

	fuzz_check(asked && l && asked->q.op == GRANTER_ALLOC && f->file == BOX_CONTROL_DEVICE);
	fuzz_check(asked->expected == 0 || asked->expected == -EXDEV);
	fuzz_check(p->command == RM_CONTROL_GPU_ID && p->flags == 0 && p->status == 0);
	fuzz_check(p->root == asked->q.root && p->object == asked->q.parent);
	fuzz_check(p->parameters_size == sizeof(*id) && id->index == 0 && id->flags == 2);
	gpu = box_gpu(parent_is_leased(p->object) ? (unsigned)__builtin_ctzll(l->gpus)
						  : GRANTER_GPUS_MAX);
	memcpy(id->data, &gpu, sizeof(gpu));
	p->status = RM_STATUS_OK;
	return 0;
}

int model_drive_free(struct box_fd *f, struct rm_free *p)
{
	const struct model_asked *asked = f ? find_asked(f) : NULL;

	if (asked && p->object == 0 && !f->allocated) {
		return drive_question(asked, f, p);
	}
	fuzz_check(f && f->kind == FD_FILE && f->allocated);
	fuzz_check(p->root == f->root && p->parent == f->parent && p->object == f->object);
	fuzz_check(p->status == 0);
	check_end_of_object(f);
	forget_object(f);
	box.figures.frees++;
	if (box.step.driver_errno != 0) {
		errno = box.step.driver_errno;
		return -1;
	}
	p->status = box.step.driver_status;
	return 0;
}
