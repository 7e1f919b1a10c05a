/** `with { type: "file" }`: the path of the file, inside the executable when compiled. */
declare module "*.onnx" {
  const path: string;
  // biome-ignore lint/style/noDefaultExport: an import with { type: "file" } has no other kind
  export default path;
}
