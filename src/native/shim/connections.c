/*
 * A limit of connections. Bun accepts every connection, so strangers who open many of them would take all descriptors of the
 * server, also those for its files and workers. verk_limit_connections therefore replaces accept4 in the table of
 * functions that the program imports (its global offset table). The kernel gives the lowest free descriptor: if that is
 * `most` or higher, the new connection is closed at once. Descriptors from `most` on stay free for everything else.
 *
 * NOT covered: sockets of this machine (AF_UNIX), and libraries that have a table of their own.
 */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REFUSED_AT_ONCE = 64 }; /* then the event loop has a turn */

static atomic_int most_connections;
static atomic_ullong refused;

static void refuse(int connection) {
  struct linger at_once = { 1, 0 }; /* a reset: nothing waits in the kernel afterwards */
  setsockopt(connection, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(connection);
  atomic_fetch_add(&refused, 1);
}

static int is_local(int connection) {
  int domain = 0;
  socklen_t size = sizeof domain;
  return getsockopt(connection, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

static int limited_accept4(int listener, struct sockaddr *address, socklen_t *length, int flags) {
  socklen_t room = length ? *length : 0;
  for (int i = 0; i < REFUSED_AT_ONCE; i++) {
    if (length) *length = room;
    int connection = accept4(listener, address, length, flags);
    if (connection < atomic_load(&most_connections) || is_local(connection)) return connection;
    refuse(connection);
  }
  errno = EAGAIN;
  return -1;
}

typedef struct { ElfW(Addr) from, to; } range;

/* Addresses in the dynamic section are relocated by glibc, or still relative to the base. */
static void *pointer_of(const struct dl_phdr_info *program, ElfW(Addr) value) {
  return (void *)(value < program->dlpi_addr ? value + program->dlpi_addr : value);
}

static int replace_slot(void **slot, range read_only) {
  ElfW(Addr) at = (ElfW(Addr))slot;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  void *start = (void *)(at & ~(page - 1));
  if (mprotect(start, page, PROT_READ | PROT_WRITE) != 0) return 0;
  *slot = (void *)limited_accept4;
  if (at >= read_only.from && at < read_only.to) mprotect(start, page, PROT_READ);
  return 1;
}

/* The first program of the list is the executable itself. */
static int replace_in(struct dl_phdr_info *program, size_t size, void *replaced) {
  (void)size;
  const ElfW(Dyn) *dynamic = NULL;
  range read_only = { 0, 0 };
  for (int i = 0; i < program->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &program->dlpi_phdr[i];
    ElfW(Addr) from = program->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_DYNAMIC) dynamic = (const ElfW(Dyn) *)from;
    if (part->p_type == PT_GNU_RELRO) read_only = (range){ from, from + part->p_memsz };
  }
  const ElfW(Sym) *symbols = NULL;
  const char *names = NULL;
  const ElfW(Rela) *tables[2] = { NULL, NULL };
  size_t bytes[2] = { 0, 0 };
  for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
    if (dynamic->d_tag == DT_SYMTAB) symbols = pointer_of(program, dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_STRTAB) names = pointer_of(program, dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_JMPREL) tables[0] = pointer_of(program, dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_PLTRELSZ) bytes[0] = dynamic->d_un.d_val;
    if (dynamic->d_tag == DT_RELA) tables[1] = pointer_of(program, dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_RELASZ) bytes[1] = dynamic->d_un.d_val;
  }
  for (int table = 0; symbols && names && table < 2; table++)
    for (size_t i = 0; tables[table] && i < bytes[table] / sizeof(ElfW(Rela)); i++) {
      const ElfW(Rela) *entry = &tables[table][i];
      const ElfW(Sym) *symbol = &symbols[ELF64_R_SYM(entry->r_info)];
      if (strcmp(names + symbol->st_name, "accept4") != 0) continue;
      *(int *)replaced += replace_slot((void **)(program->dlpi_addr + entry->r_offset), read_only);
    }
  return 1;
}

/* Returns 0 if this program does not accept through accept4. A second call changes the number. */
int verk_limit_connections(int most) {
  static int replaced = 0;
  atomic_store(&most_connections, most);
  if (replaced == 0) dl_iterate_phdr(replace_in, &replaced);
  return replaced;
}

unsigned long long verk_refused_connections(void) { return atomic_load(&refused); }
