import type { ContainerClient } from "@azure/storage-blob";
import type { DequeuedMessageItem, QueueClient } from "@azure/storage-queue";
import { newContainer, newQueue, pause, refusalOf, refused, type Scene } from "./scene.ts";

const TRIES_MAX = 3;

async function take(queue: QueueClient, visibilityTimeout: number): Promise<DequeuedMessageItem> {
  for (;;) {
    const { receivedMessageItems } = await queue.receiveMessages({ visibilityTimeout });
    const [message] = receivedMessageItems;
    if (message !== undefined) return message;
    await pause(100);
  }
}

/** Does the work once, though its message may come twice: the receipt can be created by one alone. */
export async function pay(
  receipts: ContainerClient,
  invoice: string,
): Promise<"paid" | "was paid"> {
  try {
    const onlyNew = { conditions: { ifNoneMatch: "*" } };
    await receipts.getBlockBlobClient(invoice).upload("paid", 4, onlyNew);
    return "paid";
  } catch (error) {
    if (refusalOf(error) !== "409 BlobAlreadyExists") throw error;
    return "was paid";
  }
}

/** Gives a message that failed back at once, or lays it aside when it has failed too often. */
export async function giveBack(
  message: DequeuedMessageItem,
  queue: QueueClient,
  poison: QueueClient,
): Promise<"given back" | "laid aside"> {
  const { messageId, popReceipt, messageText, dequeueCount } = message;
  if (dequeueCount < TRIES_MAX) {
    await queue.updateMessage(messageId, popReceipt, messageText, 0);
    return "given back";
  }
  await poison.sendMessage(messageText);
  await queue.deleteMessage(messageId, popReceipt);
  return "laid aside";
}

/** Neither ETag nor lease: a message that is taken is hidden for a time, and comes back unless it is deleted. */
export const worker: Scene = {
  title: "Two workers and a queue",
  async play(tell) {
    const [queue, poison, receipts] = await Promise.all([
      newQueue("invoices"),
      newQueue("invoices-poison"),
      newContainer("receipts"),
    ]);
    await queue.sendMessage("invoice 7");
    const first = await take(queue, 3);
    const { receivedMessageItems } = await queue.receiveMessages();
    tell(
      `One takes ${first.messageText} for three seconds; meanwhile nobody else sees it: ${receivedMessageItems.length === 0}.`,
    );
    tell(
      `One works: ${await pay(receipts, first.messageText)}. It stops before it has deleted the message.`,
    );
    const second = await take(queue, 30);
    tell(`When they are over it comes to Two, for the ${second.dequeueCount}nd time.`);
    tell(`Two works, and finds it done: ${await pay(receipts, second.messageText)}.`);
    const late = await refused(queue.deleteMessage(first.messageId, first.popReceipt));
    tell(`One wakes up and deletes it, by the pop receipt it has: ${late}.`);
    const { popReceipt = "" } = await queue.updateMessage(
      second.messageId,
      second.popReceipt,
      second.messageText,
      60,
    );
    tell("Two needs longer: it updates the message, and gets a new pop receipt.");
    await queue.deleteMessage(second.messageId, popReceipt);
    tell("Two deletes the message by that.");

    await queue.sendMessage("invoice ?");
    tell("A message comes that nobody can work on.");
    for (let outcome = ""; outcome !== "laid aside"; ) {
      const message = await take(queue, 30);
      outcome = await giveBack(message, queue, poison);
      tell(`Try ${message.dequeueCount} fails: ${outcome}.`);
    }
    const { peekedMessageItems } = await poison.peekMessages();
    tell(`For a human to look at: ${peekedMessageItems[0]?.messageText}.`);
  },
};
