import { render } from "preact";
import { errorText } from "../../lib/error_text.ts";
import type { ReferenceIndex } from "../../resources/server/docs/chapters.ts";
import { applyTheme, theme } from "../shell/theme.ts";
import { load } from "./chapter.tsx";
import { Failed, Reference } from "./page.tsx";

applyTheme(theme.value);
const root = document.getElementById("app");

if (root)
  load<ReferenceIndex>("/docs/chapters")
    .then((index) => render(<Reference index={index} />, root))
    .catch((error: unknown) => render(<Failed message={errorText(error)} />, root));
