/** `with { type: "file" }` gives the path of the file. In the executable the path lies inside it. */
declare module "*.gguf" {
  const path: string;
  // biome-ignore lint/style/noDefaultExport: an import with { type: "file" } has no other kind
  export default path;
}
