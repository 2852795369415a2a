"""ZooKeeper by kazoo: `port` is the one a node has, made of sessions, their requests and the answers to them."""
