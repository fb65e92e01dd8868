/*
 * Reads a file in order with libsmb2's synchronous calls, and prints elapsed and processor time in nanoseconds.
 *
 *   PASSWORD=... libsmb2 HOST:PORT SHARE USER FILE LENGTH SIZE COUNT
 *
 * FILE has LENGTH bytes. COUNT reads of SIZE bytes are measured, after as many as a connection needs to have its credits.
 */
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include <smb2/smb2.h>
#include <smb2/libsmb2.h>

static struct smb2_context *smb2;

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, smb2_get_error(smb2));
	exit(1);
}

/* move reads size bytes at off. */
static void move(struct smb2fh *file, uint8_t *to, uint32_t size, uint64_t off)
{
	while (size > 0) {
		int n = smb2_pread(smb2, file, to, size, off);
		if (n <= 0)
			fail("pread");
		to += n;
		size -= n;
		off += n;
	}
}

static int64_t nanoseconds(struct timespec t) { return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec; }

static int64_t elapsed(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return nanoseconds(t);
}

static int64_t processor(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return nanoseconds(t);
}

int main(int argc, char **argv)
{
	struct smb2fh *file;
	uint8_t *buf;
	uint64_t length, off = 0;
	int64_t began, used;
	uint32_t size;
	long count, i;

	if (argc != 8) {
		fprintf(stderr, "usage: PASSWORD=... %s HOST:PORT SHARE USER FILE LENGTH SIZE COUNT\n", argv[0]);
		return 2;
	}
	length = strtoull(argv[5], NULL, 10);
	size = strtoul(argv[6], NULL, 10);
	count = strtol(argv[7], NULL, 10);
	buf = malloc(size);
	smb2 = smb2_init_context();
	if (smb2 == NULL || buf == NULL)
		return 1;
	smb2_set_security_mode(smb2, SMB2_NEGOTIATE_SIGNING_ENABLED);
	smb2_set_password(smb2, getenv("PASSWORD"));
	if (smb2_connect_share(smb2, argv[1], argv[2], argv[3]) != 0)
		fail("connect");
	file = smb2_open(smb2, argv[4], O_RDONLY);
	if (file == NULL)
		fail("open");
	for (i = 0; i < 8; i++)
		move(file, buf, size, i * size % length);

	began = elapsed();
	used = processor();
	for (i = 0; i < count; i++) {
		move(file, buf, size, off);
		off = (off + size) % length;
	}
	printf("%lld %lld\n", (long long)(elapsed() - began), (long long)(processor() - used));

	smb2_close(smb2, file);
	smb2_disconnect_share(smb2);
	smb2_destroy_context(smb2);
	return 0;
}
