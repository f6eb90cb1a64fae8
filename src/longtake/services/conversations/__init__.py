"""Conversations: a user's prompts and the answers to them, message by message.

An answer under way has a placeholder. It becomes the finished message exactly once, in the transaction that ends its
task, and makes the conversation unread until its user has read it.
"""
