// Kernels of decoding for NVIDIA GPUs from compute capability 8.0 on, in one file of machine code that
// scripts/build_kernels makes and src/native/cuda/decode/kernels.ts loads.
#include "adapters.cuh"
#include "attention_prompt.cuh"
#include "draw_token.cuh"
#include "exact.cuh"
#include "families.cuh"
#include "few.cuh"
#include "few_packed.cuh"
#include "tiles.cuh"
#include "tiles_few.cuh"
#include "tiles_packed.cuh"
