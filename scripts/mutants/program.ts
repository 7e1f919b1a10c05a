/** The syntax trees and the type errors of a folder, by the compiler as a child process. */
import { join } from "node:path";
import type { SourceFile } from "typescript/unstable/ast";
import { API } from "typescript/unstable/async";
import { createVirtualFileSystem } from "typescript/unstable/fs";

export type Program = {
  parse: (file: string) => Promise<SourceFile>;
  /** True if the file, which has just changed on the disk, has no type errors of its own. */
  isSound: (file: string) => Promise<boolean>;
  close: () => Promise<void>;
};

export async function openProgram(root: string): Promise<Program> {
  const api = new API({ cwd: root });
  const config = join(root, "tsconfig.json");
  let snapshot = await api.updateSnapshot({ openProjects: [config] });
  const programOf = () => {
    const project = snapshot.getProject(config);
    if (!project) throw new Error(`${config} is not opened`);
    return project.program;
  };
  return {
    parse: async (file) => {
      const source = await programOf().getSourceFile(join(root, file));
      if (!source) throw new Error(`${file} does not belong to tsconfig.json`);
      return source;
    },
    isSound: async (file) => {
      const before = snapshot;
      snapshot = await api.updateSnapshot({ fileChanges: { changed: [join(root, file)] } });
      await before.dispose();
      return (await programOf().getSemanticDiagnostics(join(root, file))).length === 0;
    },
    close: () => api.close(),
  };
}

/** The tree of one text, without a folder. */
export async function parseText(text: string): Promise<SourceFile> {
  const config = { files: ["text.ts"], compilerOptions: { noLib: true, noResolve: true, types: [] } };
  const fs = createVirtualFileSystem({ "/tsconfig.json": JSON.stringify(config), "/text.ts": text });
  const api = new API({ cwd: "/", fs });
  try {
    const snapshot = await api.updateSnapshot({ openProjects: ["/tsconfig.json"] });
    const source = await snapshot.getProject("/tsconfig.json")?.program.getSourceFile("/text.ts");
    if (!source) throw new Error("the text was not parsed");
    return source;
  } finally {
    await api.close();
  }
}
