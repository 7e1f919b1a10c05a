import { render } from "preact";
import { startClock } from "./kit/time.tsx";
import "./pages/home/home.tsx"; // part of the first load: it is the first page that people see
import { PAGES } from "./pages/pages.ts";
import { App } from "./shell/app.tsx";
import { registerPages, startRouter } from "./shell/router.ts";
import { applyTheme, theme } from "./shell/theme.ts";

applyTheme(theme.value);
registerPages(PAGES.map(({ path }) => path));
startRouter();
startClock();
const root = document.getElementById("app");
if (root) render(<App />, root);
