declare module "pyodide/pyodide.asm.mjs" {
  /** Imported as a file: its path. */
  const path: string;
  // biome-ignore lint/style/noDefaultExport: this is how files are imported
  export default path;
}
