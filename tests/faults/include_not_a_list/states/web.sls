include: common
