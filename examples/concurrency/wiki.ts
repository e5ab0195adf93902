import type { BlockBlobClient } from "@azure/storage-blob";
import { newContainer, refusalOf, refused, type Scene } from "./scene.ts";

/** A page as somebody read it: its lines, and the ETag of that state. */
type Page = { readonly lines: readonly string[]; readonly etag: string };

/** Text and ETag come from one reply, so they belong together whoever writes meanwhile. */
async function read(blob: BlockBlobClient): Promise<Page> {
  const { etag = "", readableStreamBody } = await blob.download();
  let text = "";
  for await (const part of readableStreamBody ?? []) text += String(part);
  return { lines: text.split("\n"), etag };
}

/** Writes only if the page is still what `base` was. */
async function save(blob: BlockBlobClient, lines: readonly string[], base: Page): Promise<void> {
  const text = lines.join("\n");
  await blob.upload(text, Buffer.byteLength(text), { conditions: { ifMatch: base.etag } });
}

/**
 * Changes the page, however many do so at once. A change is a function of what is there, so it can be done
 * again on the state that somebody else made; gives how many times it was refused.
 */
export async function edit(
  blob: BlockBlobClient,
  base: Page,
  change: (lines: readonly string[]) => readonly string[],
): Promise<number> {
  let page = base;
  for (let refusals = 0; ; refusals++) {
    try {
      await save(blob, change(page.lines), page);
      return refusals;
    } catch (error) {
      if (refusalOf(error) !== "412 ConditionNotMet") throw error;
      page = await read(blob);
    }
  }
}

/** Optimistic concurrency: nobody waits, and nobody's change is lost. */
export const wiki: Scene = {
  title: "A wiki page, edited by two at once",
  async play(tell) {
    const container = await newContainer("wiki");
    const blob = container.getBlockBlobClient("Lapis");
    const created = "Lapis lazuli\nis blue.";
    const onlyNew = { conditions: { ifNoneMatch: "*" } };
    await blob.upload(created, created.length, onlyNew);
    const again = await refused(blob.upload(created, created.length, onlyNew));
    tell(`The page is created once; to create it again is refused: ${again}.`);

    const [ada, ben] = await Promise.all([read(blob), read(blob)]);
    tell(`Ada and Ben read the same state: ${ada.etag === ben.etag}.`);
    await save(blob, [...ada.lines, "It comes from Badakhshan."], ada);
    tell("Ada saves with the ETag that she read.");
    const late = await refused(save(blob, ["Lapis lazuli", "is ultramarine."], ben));
    tell(`Ben saves with his: ${late}. Nothing of Ada's is lost.`);

    const bluer = (lines: readonly string[]) =>
      lines.map((line) => line.replace("blue", "ultramarine"));
    const refusals = await edit(blob, ben, bluer);
    tell(
      `Ben's program reads again, puts his change into what is there, and saves: refused ${refusals} time.`,
    );
    tell(`The page: ${(await read(blob)).lines.join(" / ")}`);

    const start = await read(blob);
    const add = (name: string) => edit(blob, start, (lines) => [...lines, name]);
    await Promise.all(Array.from({ length: 10 }, (_, index) => add(`line ${index}`)));
    tell(
      `Ten more add a line each, all at once: ${(await read(blob)).lines.length - start.lines.length} lines more.`,
    );

    await blob.upload("gone", 4);
    tell(`Who sends no condition wins whatever was there: "${(await read(blob)).lines}".`);
  },
};
