type Parts = { script: string; preload: readonly string[]; styles: readonly string[]; icon: string };

/** The page that every address of the dashboard answers with. */
export const indexPage = (parts: Parts): string =>
  page("Verk", parts, "The dashboard needs JavaScript. The command line does everything too: run verk help.");

/** The API reference at /docs. */
export const referencePage = (parts: Parts): string =>
  page(
    "API reference · Verk",
    parts,
    'This page draws the contract with JavaScript. Without it, read <a href="/openapi.json">openapi.json</a>.',
  );

/** A page has no inline script and no inline style. */
const page = (title: string, { script, preload, styles, icon }: Parts, without: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="icon" href="/assets/${icon}" type="image/svg+xml">
${styles.map((name) => `<link rel="stylesheet" href="/assets/${name}">\n`).join("")}${preload.map((name) => `<link rel="modulepreload" href="/assets/${name}">\n`).join("")}<script type="module" src="/assets/${script}"></script>
</head>
<body>
<div id="app"></div>
<noscript>${without}</noscript>
</body>
</html>
`;
