/**
 * Addresses of the weights of a loaded model. The library has no public function for them, so this one is found by its
 * C++ name. Without that name in a release, no addresses are known.
 */
import { dlopen, read } from "bun:ffi";
import { cstr, type Ptr } from "../ffi.ts";
import { shapeOf, typeOf } from "../ggml/symbols.ts";
import { llamaLibraries } from "./libraries.ts";

const GET_TENSOR = "_ZNK11llama_model10get_tensorEPKc"; // llama_model::get_tensor(const char *) const
const GPU_TYPE = 1;
const BUFFER_AT = 8; // of struct ggml_tensor, between its type and its shape

export type WeightPlace = { address: number; type: number; columns: number; rows: number; onDevice: boolean };
export type WeightPlaces = (name: string) => WeightPlace | null;

type Find = (model: Ptr, name: string) => WeightPlace | null;
const opened = new Map<string, Find>();

/** Finds weights of the model at this address, in this process. */
export function weightPlaces(dataDir: string, model: number, want: { cuda: boolean }): WeightPlaces {
  const { files } = llamaLibraries(dataDir, want);
  const find = opened.get(files.llama) ?? open(files);
  opened.set(files.llama, find);
  return (name) => find(model as Ptr, name);
}

function open(files: { llama: string; ggmlBase: string }): Find {
  try {
    const { symbols: llama } = dlopen(files.llama, { [GET_TENSOR]: { args: ["ptr", "ptr"], returns: "ptr" } });
    const { symbols: ggml } = dlopen(files.ggmlBase, {
      ggml_get_data: { args: ["ptr"], returns: "ptr" },
      ggml_backend_buffer_get_type: { args: ["ptr"], returns: "ptr" },
      ggml_backend_buft_get_device: { args: ["ptr"], returns: "ptr" },
      ggml_backend_dev_type: { args: ["ptr"], returns: "i32" },
    });
    return (model, name) => {
      const tensor = llama[GET_TENSOR]?.(model, cstr(name)) as Ptr | null | undefined;
      const buffer = tensor ? Number(read.ptr(tensor, BUFFER_AT)) : 0;
      if (!tensor || buffer === 0) return null;
      const [columns, rows] = shapeOf(tensor);
      const device = ggml.ggml_backend_buft_get_device(ggml.ggml_backend_buffer_get_type(buffer as Ptr));
      const onDevice = device !== null && ggml.ggml_backend_dev_type(device) === GPU_TYPE;
      return { address: Number(ggml.ggml_get_data(tensor)), type: typeOf(tensor), columns, rows, onDevice };
    };
  } catch {
    return () => null;
  }
}
