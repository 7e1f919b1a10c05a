declare module "pyodide/pyodide.asm.mjs" {
  /** Emscripten's module factory. */
  const create: (settings: object) => Promise<unknown>;
  // biome-ignore lint/style/noDefaultExport: the package has one
  export default create;
}
