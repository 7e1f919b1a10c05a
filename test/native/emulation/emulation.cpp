// Fibers of the emulation, and its only entry: `emulate` runs a kernel by name with packed arguments.
#include "emulation.h"

#include <setjmp.h>
#include <ucontext.h>

#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace emulation {
Thread *current;
Three block, grid, threads;
char *dynamicShared;

namespace {
constexpr size_t STACK = 64 << 10;
constexpr int MOST_THREADS = 1024;
enum class State { ready, atWarp, atBlock, done };

struct Copy {
  void *to;
  const void *from;
  bool inside;
};
struct Fiber {
  Thread thread;
  State state = State::ready;
  bool begun = false;
  ucontext_t context;
  jmp_buf at;
  std::vector<std::vector<Copy>> copies; // groups; the last one is open
};
// In the other order of warps and lanes, a barrier that is missing shows in other numbers.
const bool reversed = getenv("VERK_EMULATION_REVERSED") != nullptr;
std::vector<Fiber> fibers(MOST_THREADS);
std::vector<char> stacks(STACK *MOST_THREADS);
std::vector<uint32_t> exchanges(MOST_THREADS * 2 * EXCHANGE_WORDS);
jmp_buf scheduler;
const char *kernelName;
void (*body)(const char *);
const char *bodyArguments;

[[noreturn]] void fail(const char *why) {
  fprintf(stderr, "emulation of %s, block (%u, %u, %u): %s\n", kernelName, block.x, block.y, block.z, why);
  abort();
}

Fiber &own() { return *reinterpret_cast<Fiber *>(reinterpret_cast<char *>(current)); }

void leave(State state) {
  Fiber &fiber = own();
  fiber.state = state;
  if (_setjmp(fiber.at) == 0) _longjmp(scheduler, 1);
}

void enterFiber() {
  body(bodyArguments);
  own().state = State::done;
  _longjmp(scheduler, 1);
}

void resume(Fiber &fiber, size_t number) {
  current = &fiber.thread;
  if (_setjmp(scheduler) != 0) return;
  if (fiber.begun) _longjmp(fiber.at, 1);
  fiber.begun = true;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = &stacks[number * STACK];
  fiber.context.uc_stack.ss_size = STACK;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, enterFiber, 0);
  setcontext(&fiber.context);
}

// Runs a warp until each of its threads is at a barrier of the block, or done.
void runWarp(int first, int end) {
  for (;;) {
    bool ran = false;
    for (int n = first; n < end; n++) {
      const int i = reversed ? first + end - 1 - n : n;
      if (fibers[i].state == State::ready) resume(fibers[i], i), ran = true;
    }
    int waiting = 0, others = 0;
    for (int i = first; i < end; i++) {
      if (fibers[i].state == State::atWarp) waiting++;
      else others++;
    }
    if (waiting == 0) {
      if (!ran) return;
      continue;
    }
    if (others > 0) fail("some threads of a warp wait for others that ended or wait for the block");
    for (int i = first; i < end; i++) fibers[i].state = State::ready;
  }
}

void runBlock(int count) {
  for (int i = 0; i < count; i++) {
    Fiber &fiber = fibers[i];
    fiber.thread = Thread{{static_cast<unsigned>(i), 0, 0}, i & 31, i >> 5, 0};
    fiber.state = State::ready;
    fiber.begun = false;
    fiber.copies.assign(1, {});
  }
  const int warps = (count + 31) / 32;
  for (;;) {
    int waiting = 0, done = 0;
    for (int n = 0; n < warps; n++) {
      const int first = 32 * (reversed ? warps - 1 - n : n);
      runWarp(first, first + 32 < count ? first + 32 : count);
    }
    for (int i = 0; i < count; i++) {
      waiting += fibers[i].state == State::atBlock;
      done += fibers[i].state == State::done;
    }
    if (done == count) return;
    if (waiting + done != count) fail("threads are lost");
    for (int i = 0; i < count; i++)
      if (fibers[i].state == State::atBlock) fibers[i].state = State::ready;
  }
}
} // namespace

void queueCopy(void *to, const void *from, bool inside) { own().copies.back().push_back({to, from, inside}); }
void commitCopies() { own().copies.emplace_back(); }
void finishCopies(int pending) {
  auto &groups = own().copies;
  while (static_cast<int>(groups.size()) - 1 > pending) {
    for (const Copy &copy : groups.front()) {
      if (copy.inside) memcpy(copy.to, copy.from, 16);
      else memset(copy.to, 0, 16);
    }
    groups.erase(groups.begin());
  }
}
void blockBarrier() { leave(State::atBlock); }
void warpBarrier() { leave(State::atWarp); }
uint32_t (*exchange())[EXCHANGE_WORDS] {
  const size_t at = (static_cast<size_t>(current->warp) * 2 + (current->turn & 1)) * 32 * EXCHANGE_WORDS;
  return reinterpret_cast<uint32_t(*)[EXCHANGE_WORDS]>(&exchanges[at]);
}

struct Kernel {
  void (*run)(const char *packed);
  size_t parameterBytes;
};
std::map<std::string, Kernel> &kernels() {
  static std::map<std::string, Kernel> all;
  return all;
}

void runGrid(void (*call)(const char *), const char *packed) {
  body = call;
  bodyArguments = packed;
  for (block.z = 0; block.z < grid.z; block.z++)
    for (block.y = 0; block.y < grid.y; block.y++)
      for (block.x = 0; block.x < grid.x; block.x++) runBlock(threads.x);
}

// Takes arguments that lie as a kernel's parameters do: each at a multiple of its alignment.
template <class T> T next(const char *packed, size_t &at) {
  at = (at + alignof(T) - 1) / alignof(T) * alignof(T);
  T value;
  memcpy(&value, packed + at, sizeof(T));
  at += sizeof(T);
  return value;
}
template <auto KERNEL> struct Caller;
template <class... P, void (*KERNEL)(P...)> struct Caller<KERNEL> {
  static size_t parameterBytes() {
    size_t at = 0;
    ((at = (at + alignof(P) - 1) / alignof(P) * alignof(P) + sizeof(P)), ...);
    return at;
  }
  static void run(const char *packed) {
    runGrid(
        [](const char *packed) {
          size_t at = 0;
          std::apply(KERNEL, std::tuple<P...>{next<P>(packed, at)...}); // braces evaluate in order
        },
        packed);
  }
};
} // namespace emulation

#define EMULATES(NAME) emulation::kernels()[#NAME] = {emulation::Caller<&NAME>::run, emulation::Caller<&NAME>::parameterBytes()};
#ifndef EMULATED_KERNELS
#define EMULATED_KERNELS "kernels.inc"
#endif
#include EMULATED_KERNELS

static std::mutex emulating; // one kernel at a time: two engines may run in two threads of one process

extern "C" int emulate(const char *name, unsigned x, unsigned y, unsigned z, unsigned count, unsigned shared, const char *packed) {
  const std::lock_guard<std::mutex> alone(emulating);
  using namespace emulation;
  if (kernels().empty()) registerKernels();
  const auto found = kernels().find(name);
  if (found == kernels().end() || count > MOST_THREADS) return 1;
  std::vector<char> memory(shared + 256, static_cast<char>(0xff)); // NaN, so that a read before a write shows
  const size_t address = reinterpret_cast<size_t>(memory.data());
  dynamicShared = memory.data() + (256 - address % 256) % 256;
  kernelName = found->first.c_str();
  grid = {x, y, z};
  threads = {count, 1, 1};
  found->second.run(packed);
  return 0;
}

// 0 for a kernel that does not exist.
extern "C" uint64_t emulated_parameter_bytes(const char *name) {
  if (emulation::kernels().empty()) registerKernels();
  const auto found = emulation::kernels().find(name);
  return found == emulation::kernels().end() ? 0 : found->second.parameterBytes;
}

// Memory between pages of bytes that are checked when it is freed: a kernel that writes past an end is found.
namespace {
constexpr size_t MARGIN = 256;
constexpr unsigned char MARK = 0xa5;
} // namespace
extern "C" void *emulated_allocate(uint64_t bytes) {
  char *all = static_cast<char *>(aligned_alloc(256, (bytes + 3 * MARGIN - 1) / MARGIN * MARGIN));
  if (all == nullptr) return nullptr;
  memset(all, MARK, MARGIN);
  memcpy(all, &bytes, 8);
  memset(all + MARGIN, 0, bytes);
  memset(all + MARGIN + bytes, MARK, (bytes + 3 * MARGIN - 1) / MARGIN * MARGIN - MARGIN - bytes);
  return all + MARGIN;
}
extern "C" void emulated_free(void *at) {
  if (at == nullptr) return;
  const auto *all = static_cast<unsigned char *>(at) - MARGIN;
  uint64_t bytes;
  memcpy(&bytes, all, 8);
  for (size_t i = 8; i < MARGIN; i++)
    if (all[i] != MARK) fprintf(stderr, "emulation: a kernel wrote before its memory\n"), abort();
  for (size_t i = 0; i < MARGIN; i++)
    if (all[MARGIN + bytes + i] != MARK) fprintf(stderr, "emulation: a kernel wrote past its memory\n"), abort();
  free(const_cast<unsigned char *>(all));
}
