type Parts = { script: string; preload: readonly string[]; style: string; icon: string };

/** The page that every address of the dashboard answers with. It has no inline script and no inline style. */
export const indexPage = ({ script, preload, style, icon }: Parts): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Verk</title>
<link rel="icon" href="/assets/${icon}" type="image/svg+xml">
<link rel="stylesheet" href="/assets/${style}">
${preload.map((name) => `<link rel="modulepreload" href="/assets/${name}">\n`).join("")}<script type="module" src="/assets/${script}"></script>
</head>
<body>
<div id="app"></div>
<noscript>The dashboard needs JavaScript. The command line does everything too: run verk help.</noscript>
</body>
</html>
`;
