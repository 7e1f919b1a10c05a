import { render } from "preact";
import { App } from "./shell/app.tsx";
import { startRouter } from "./shell/router.ts";
import { applyTheme, theme } from "./shell/theme.ts";

applyTheme(theme.value);
startRouter();
const root = document.getElementById("app");
if (root) render(<App />, root);
