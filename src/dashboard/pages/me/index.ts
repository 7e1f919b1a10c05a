import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [{ path: "/me", title: "Your account", load: () => import("./me.tsx") }];
