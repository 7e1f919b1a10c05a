// A libcuda whose device is the emulation: the calls of cuda_device.ts and driver.ts, with their layouts checked. Work is
// done at once, except while a stream is captured. An error code is what a real driver would return, or 999.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <functional>
#include <string>
#include <vector>

extern "C" int emulate(const char *name, unsigned x, unsigned y, unsigned z, unsigned count, unsigned shared, const char *packed);
extern "C" uint64_t emulated_parameter_bytes(const char *name);
extern "C" void *emulated_allocate(uint64_t bytes);
extern "C" void emulated_free(void *at);

namespace {
constexpr int WRONG = 1, NOT_FOUND = 500, CAPTURED = 906, UNKNOWN = 999;
constexpr unsigned MOST_SHARED = 227 << 10;
struct Function {
  std::string name;
  unsigned shared = 48 << 10;
};
struct Graph {
  std::vector<std::function<void()>> work;
};
struct Config {
  unsigned grid[3], block[3], shared;
  void *stream;
  struct Attribute {
    uint32_t id, pad, value[16];
  } *attributes;
  unsigned attributeCount;
};
static_assert(sizeof(Config) == 56 && sizeof(Config::Attribute) == 72, "layout of cuda.h");
int stream;
Graph *capturing = nullptr;
} // namespace

// Does the work, or records it.
int fakeQueue(void *on, std::function<void()> work) {
  if (on != &stream) return WRONG;
  if (capturing != nullptr) capturing->work.push_back(work);
  else work();
  return 0;
}

#define CALL extern "C" int
CALL cuInit(unsigned) { return 0; }
CALL cuDeviceGet(int *to, int index) { return *to = index, 0; }
CALL cuDeviceGetAttribute(int *to, int what, int) { return *to = what == 75 ? 9 : 4, 0; }
CALL cuDevicePrimaryCtxRetain(void **to, int) { return *to = &stream, 0; }
CALL cuCtxSetCurrent(void *) { return 0; }
CALL cuCtxSynchronize() { return 0; }
CALL cuGetErrorName(int code, const char **to) {
  static std::string name;
  name = "fake error " + std::to_string(code);
  return *to = name.c_str(), 0;
}
CALL cuModuleLoadData(void **to, const void *) { return *to = &stream, 0; }
CALL cuModuleGetFunction(void **to, void *, const char *name) {
  if (emulated_parameter_bytes(name) == 0) return NOT_FOUND;
  return *to = new Function{name}, 0;
}
CALL cuFuncSetAttribute(Function *of, int what, int value) {
  if (what != 8 || value < 0 || static_cast<unsigned>(value) > MOST_SHARED) return WRONG;
  return of->shared = value, 0;
}
CALL cuLaunchKernelEx(const Config *config, Function *of, void **parameters, void **extra) {
  if (config->stream != &stream || parameters != nullptr || config->shared > of->shared) return WRONG;
  if (config->block[0] < 1 || config->block[0] > 1024 || config->block[1] != 1 || config->block[2] != 1) return WRONG;
  if (config->grid[0] < 1 || config->grid[1] < 1 || config->grid[2] < 1 || config->grid[1] > 65535 || config->grid[2] > 65535) return WRONG;
  for (unsigned i = 0; i < config->attributeCount; i++)
    if (config->attributes[i].id != 6 || config->attributes[i].value[0] != 1) return WRONG;
  if (extra[0] != reinterpret_cast<void *>(1) || extra[2] != reinterpret_cast<void *>(2) || extra[4] != nullptr) return WRONG;
  const size_t bytes = *static_cast<size_t *>(extra[3]);
  if (bytes != emulated_parameter_bytes(of->name.c_str())) {
    fprintf(stderr, "%s takes %zu bytes of parameters, not %zu\n", of->name.c_str(), static_cast<size_t>(emulated_parameter_bytes(of->name.c_str())), bytes);
    return WRONG;
  }
  const std::string packed(static_cast<const char *>(extra[1]), bytes);
  const Config how = *config;
  return fakeQueue(config->stream, [=] {
    if (emulate(of->name.c_str(), how.grid[0], how.grid[1], how.grid[2], how.block[0], how.shared, packed.data()) != 0) abort();
  });
}
CALL cuLaunchKernel(Function *of, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz, unsigned shared, void *on, void **parameters, void **extra) {
  const Config config{{x, y, z}, {threads, ty, tz}, shared, on, nullptr, 0};
  return cuLaunchKernelEx(&config, of, parameters, extra);
}
CALL cuMemAlloc_v2(void **to, uint64_t bytes) { return capturing ? CAPTURED : (*to = emulated_allocate(bytes)) == nullptr ? 2 : 0; }
CALL cuMemFree_v2(void *at) { return capturing ? CAPTURED : (emulated_free(at), 0); }
CALL cuMemHostAlloc(void **to, uint64_t bytes, unsigned flags) { return flags != 0 || (*to = malloc(bytes)) == nullptr ? WRONG : 0; }
CALL cuMemHostRegister_v2(void *at, uint64_t bytes, unsigned flags) { return at == nullptr || bytes == 0 || flags != 0 ? WRONG : 0; }
CALL cuMemHostUnregister(void *at) { return at == nullptr ? WRONG : 0; }
CALL cuMemFreeHost(void *at) { return free(at), 0; }
CALL cuMemsetD8Async(void *at, uint8_t value, uint64_t bytes, void *on) { return on != &stream || capturing ? WRONG : (memset(at, value, bytes), 0); }
CALL cuMemcpyHtoDAsync_v2(void *to, const void *from, uint64_t bytes, void *on) { return on != &stream || capturing ? WRONG : (memcpy(to, from, bytes), 0); }
CALL cuMemcpyDtoHAsync_v2(void *to, const void *from, uint64_t bytes, void *on) { return on != &stream || capturing ? WRONG : (memcpy(to, from, bytes), 0); }
struct Rows { uint64_t fromX, fromY, fromKind; char *fromHost, *fromDevice; uint64_t fromArray, fromStride, toX, toY, toKind; char *toHost, *toDevice; uint64_t toArray, toStride, width, height; };
CALL cuMemcpy2DAsync_v2(const Rows *of, void *on) {
  if (on != &stream || capturing || of->fromKind + of->toKind != 3 || of->fromStride < of->width || of->toStride < of->width) return WRONG;
  const char *from = of->fromKind == 1 ? of->fromHost : of->fromDevice;
  char *to = of->toKind == 1 ? of->toHost : of->toDevice;
  for (uint64_t row = 0; row < of->height; row++) memcpy(to + row * of->toStride, from + row * of->fromStride, of->width);
  return 0;
}
CALL cuStreamCreate(void **to, unsigned flags) { return flags != 1 ? WRONG : (*to = &stream, 0); }
CALL cuStreamDestroy_v2(void *of) { return of == &stream ? 0 : WRONG; }
CALL cuStreamSynchronize(void *of) { return of == &stream && !capturing ? 0 : WRONG; }
CALL cuStreamBeginCapture_v2(void *of, int mode) { return of != &stream || mode != 1 || capturing ? WRONG : (capturing = new Graph, 0); }
CALL cuStreamEndCapture(void *of, Graph **to) {
  if (of != &stream || !capturing) return WRONG;
  *to = capturing;
  capturing = nullptr;
  return 0;
}
CALL cuGraphInstantiateWithFlags(Graph **to, const Graph *from, uint64_t flags) { return flags != 0 ? WRONG : (*to = new Graph(*from), 0); }
CALL cuGraphLaunch(const Graph *of, void *on) {
  if (on != &stream) return WRONG;
  for (const auto &work : of->work) work();
  return 0;
}
CALL cuGraphExecDestroy(Graph *of) { return delete of, 0; }
CALL cuGraphDestroy(Graph *of) { return delete of, 0; }
CALL cuEventCreate(void **to, unsigned) { return *to = new int, 0; }
CALL cuEventRecord(void *, void *on) { return on == &stream ? 0 : WRONG; }
CALL cuEventSynchronize(void *) { return 0; }
CALL cuEventQuery(void *) { return 0; }
CALL cuEventElapsedTime(float *to, void *, void *) { return *to = 1, 0; }
CALL cuEventDestroy_v2(int *of) { return delete of, 0; }
CALL cuStreamWaitEvent(void *of, int *, unsigned flags) { return of == &stream && flags == 0 ? 0 : WRONG; }
CALL cuMemGetInfo_v2(size_t *available, size_t *all) { return *available = *all = 1 << 30, 0; }
