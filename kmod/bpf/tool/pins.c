// SPDX-License-Identifier: GPL-2.0
/*
 * The folders of pins, and the maps that this program opens there.
 *
 * A user who can write to a folder of the path decides which objects root reads, and which names
 * root removes. The path is therefore walked one folder at a time. Each folder must belong to root
 * or to the user of this program, and no other user may write to it. A folder with the sticky bit,
 * such as /tmp, is accepted on the way: other users cannot replace an entry that is not theirs, and
 * the owner of the entry is checked next. Symbolic links are refused, except those of /proc, which
 * the kernel makes. Other users cannot open the folders of pins at all, and so cannot lock them.
 *
 * From its lock on, the folder of an algorithm is the working directory: the name of a pin is its
 * path, and nothing outside of this folder, which is on a BPF file system, is removed.
 */
#define _GNU_SOURCE			/* O_PATH */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"

#define FOR_OTHERS 077u			/* all rights of group and others */
#define TO_WRITE 022u			/* of these, the right to write */
#define LOCK_LIMIT_MS 5000u
#define LOCK_PAUSE_MS 10u

static bool is_on(int fd, unsigned long magic)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && (unsigned long)fs.f_type == magic;
}

/* refused: the rights that other users may not have. path is for messages. */
static int check_folder(int fd, const char *path, mode_t refused)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_uid && st.st_uid != geteuid()) {
		complain("%s: expected a folder of root or of user %u, got one of user %u; remove it, "
			 "or set --pins", path, geteuid(), st.st_uid);
		return -EPERM;
	}
	if (refused == TO_WRITE && st.st_mode & S_ISVTX)
		return 0;
	if (st.st_mode & refused) {
		complain("%s: expected a folder that other users cannot %s, got the mode %04o; chmod "
			 "it, or set --pins", path, refused == TO_WRITE ? "write to" : "open",
			 st.st_mode & 07777);
		return -EPERM;
	}
	return 0;
}

/*
 * Opens a folder that an open folder has, and checks it. An error is printed, except that it is
 * missing.
 */
static int enter(int at, const char *name, const char *path, int flags, mode_t refused)
{
	int follow = is_on(at, PROC_SUPER_MAGIC) ? 0 : O_NOFOLLOW, err;
	int fd = openat(at, name, flags | follow | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0) {
		err = -errno;
		if (err == -ENOTDIR || err == -ELOOP)
			complain("%s: expected a folder, got a symbolic link or a file; remove it, or "
				 "set --pins", path);
		else if (err != -ENOENT)
			complain("%s: %s", path, strerror(-err));
		return err;
	}
	err = check_folder(fd, path, refused);
	if (!err)
		return fd;
	close(fd);
	return err;
}

static int walk(const char *folder)
{
	char rest[PATH_MAX], path[PATH_MAX] = "", *name, *left;
	int fd = enter(AT_FDCWD, "/", "/", O_PATH, TO_WRITE), next;

	strcpy(rest, folder);
	for (name = strtok_r(rest, "/", &left); name && fd >= 0; name = strtok_r(NULL, "/", &left)) {
		strcat(strcat(path, "/"), name);
		next = enter(fd, name, path, O_PATH, TO_WRITE);
		close(fd);
		fd = next;
	}
	return fd;
}

/* /sys/fs/bpf becomes a BPF file system where it is none yet. Elsewhere a mount would hide files. */
static int require_bpffs(const char *folder, int fd)
{
	if (is_on(fd, BPF_FS_MAGIC))
		return fd;
	close(fd);
	if (!strcmp(folder, "/sys/fs/bpf") && !mount("bpf", folder, "bpf", 0, "mode=0700"))
		return walk(folder);
	complain("%s: expected a BPF file system; `mount -t bpf -o mode=0700 bpf %s`", folder, folder);
	return -ENOTDIR;
}

/* The folder of --pins; make: also where it is missing. Errors are printed as those of enter(). */
int open_pins(const char *pins, bool make)
{
	const char *slash = strrchr(pins, '/');
	char parent[PATH_MAX];
	int at, fd;

	if (*pins != '/' || slash == pins || !slash[1] || strlen(pins) >= sizeof(parent)) {
		complain("--pins: expected an absolute folder below another one, got %s", pins);
		return -EINVAL;
	}
	memcpy(parent, pins, (size_t)(slash - pins));
	parent[slash - pins] = '\0';
	at = walk(parent);
	if (at >= 0 && make)
		at = require_bpffs(parent, at);
	if (at < 0)
		return at;
	if (make && mkdirat(at, slash + 1, 0700) && errno != EEXIST) {
		fd = -errno;
		complain("%s: %s", pins, strerror(-fd));
	} else {
		fd = enter(at, slash + 1, pins, O_RDONLY, FOR_OTHERS);
	}
	close(at);
	return fd;
}

/* A lock that another program keeps must not hold up this one for ever. */
static int take_lock(const struct loaded *l)
{
	struct timespec pause = { .tv_nsec = LOCK_PAUSE_MS * 1000000l };
	u32 waited_ms;

	for (waited_ms = 0; flock(l->lock, LOCK_EX | LOCK_NB); waited_ms += LOCK_PAUSE_MS) {
		if (errno != EWOULDBLOCK)
			return -errno;
		if (waited_ms >= LOCK_LIMIT_MS) {
			complain("%s: expected its lock within %u s, but another program holds it; "
				 "`fuser %s` shows which", l->folder, LOCK_LIMIT_MS / 1000, l->folder);
			return -ETIMEDOUT;
		}
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* Opens the folder of the algorithm, locks it, and works there from then on. Errors as above. */
int lock_folder(struct loaded *l)
{
	struct stat st;
	int err;

	l->lock = enter(l->pins, l->name, l->folder, O_RDONLY, FOR_OTHERS);
	if (l->lock < 0)
		return l->lock;
	err = take_lock(l);
	if (err)
		return err;
	/* While this waited, an unload may have removed the folder. */
	if (fstat(l->lock, &st) || !st.st_nlink)
		return -ENOENT;
	if (!is_on(l->lock, BPF_FS_MAGIC)) {
		complain("%s: expected a folder of a BPF file system; set --pins", l->folder);
		return -ENOTDIR;
	}
	return fchdir(l->lock) ? -errno : 0;
}

int empty_folder(void)
{
	DIR *dir = opendir(".");
	struct dirent *entry;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir)))
		if (*entry->d_name != '.')
			unlink(entry->d_name);
	closedir(dir);
	return 0;
}

int remove_folder(const struct loaded *l)
{
	int err = empty_folder();

	if (!err && unlinkat(l->pins, l->name, AT_REMOVEDIR))
		err = -errno;
	if (err)
		complain("%s: cannot be removed: %s", l->folder, strerror(-err));
	return err;
}

/*
 * Returns fd if it is such a map, or an error. The kernel copies as many bytes as the map has, so
 * that the sizes must be those that this program has room for. value_bytes 0: any.
 */
int check_map(const struct loaded *l, const char *name, int fd, u32 type, u32 key_bytes,
	      size_t value_bytes)
{
	struct bpf_map_info info = {};
	u32 bytes = sizeof(info);
	int err = bpf_obj_get_info_by_fd(fd, &info, &bytes);

	if (!err && info.type == type && info.key_size == key_bytes &&
	    (!value_bytes || info.value_size == value_bytes))
		return fd;
	close(fd);
	complain("%s/%s: expected the map that this version of ccatune-bpf makes, got another one; "
		 "unload %s and load it again", l->folder, name, l->name);
	return err ? err : -EPROTO;
}

int open_pin(const struct loaded *l, const char *name, u32 type, u32 key_bytes, size_t value_bytes)
{
	int fd = bpf_obj_get(name);

	return fd < 0 ? fd : check_map(l, name, fd, type, key_bytes, value_bytes);
}

/* The name of a map that belongs to one table, or to one configuration. */
void name_pin(char *to, const char *name, u64 number)
{
	snprintf(to, PIN_BYTES, "%s-%llu", name, (unsigned long long)number);
}
