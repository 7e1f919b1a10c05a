declare module "*.sql" {
  const text: string;
  // biome-ignore lint/style/noDefaultExport: an import with { type: "text" } has no other kind
  export default text;
}
